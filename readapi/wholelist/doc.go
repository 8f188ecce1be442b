// Package wholelist has what a whole list needs beside a page
// (docs/contract/decisions.md, "Responses", whole lists): the forms in which its rows are
// written, and the bound on how many are read at the same time. Which rows these are, and
// what a key sees of them, is decided in readapi, as it is for pages.
package wholelist
