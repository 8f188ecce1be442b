//go:build !unix

package follower

// Lock does nothing here: there is no lock that ends with its process.
func (p Place) Lock() (unlock func(), err error) { return func() {}, nil }
