package witness

// Files are the files that a witness keeps.
type Files = files

// NewOn makes a Witness whose files are not in a folder.
func NewOn(cfg Config, dir Files) (*Witness, error) { return newWitness(cfg, dir) }

// FileOf is the name of a log's file.
func FileOf(origin string) string { return fileOf(origin) }

// OriginHash names a log in addresses.
func OriginHash(origin string) string { return originHash(origin) }
