// Package pages has the pages of the console, in one or more files for each subject: what is on a
// page, how it is read, and the changes that its forms make. The pages are built with the shared
// code in internal/console/web.
package pages
