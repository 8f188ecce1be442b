// Package pages has the pages of the console, a file or more for each subject: what is on a
// page, how it is read, and the changes that its forms make. The kit that they are written
// with is internal/console/web.
package pages
