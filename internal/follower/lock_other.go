//go:build !unix

package follower

// Lock does nothing: this system has no lock that ends with its process.
func (p Place) Lock() (unlock func(), err error) { return func() {}, nil }
