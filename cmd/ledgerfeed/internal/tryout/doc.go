// Package tryout is for people who develop against webhooks and the API: it receives webhooks on this
// machine, for the command webhook listen and for the demo, and makes real events of any type in a
// workspace that is for trying, for the command trigger.
package tryout
