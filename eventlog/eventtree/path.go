package eventtree

import (
	"strconv"
	"strings"
)

// Path names a tile, or a bundle of entries.
type Path struct {
	Level int   // of a tile
	Index int64 // that of the tile
	Width int   // how many hashes or entries: TileWidth for a full one
}

// Full reports whether it names a full tile or bundle.
func (p Path) Full() bool { return p.Width == TileWidth }

// ParseLevel reads the level of a tile: 0 to 63, of which trees here have the first.
func ParseLevel(text string) (int, bool) {
	if text == "" || len(text) > 2 || text[0] == '0' && len(text) > 1 || !isDigits(text) {
		return 0, false
	}
	level, err := strconv.Atoi(text)
	return level, err == nil && level < 64
}

// ParseIndex reads <N> and .p/<W> of the path of a tile (https://c2sp.org/tlog-tiles): the
// number in groups of three digits, all but the last with an x before them, and for a
// partial tile its width, 1 to 255. No log has tiles with more than 15 digits.
func ParseIndex(text string) (index int64, width int, ok bool) {
	width = TileWidth
	number, partial, found := strings.Cut(text, ".p/")
	if found {
		if partial == "" || len(partial) > 3 || partial[0] == '0' || !isDigits(partial) {
			return 0, 0, false
		}
		width, _ = strconv.Atoi(partial)
		if width >= TileWidth {
			return 0, 0, false
		}
	}
	groups := strings.Split(number, "/")
	if len(groups) > 5 || len(groups) > 1 && groups[0] == "x000" {
		return 0, 0, false
	}
	for i, group := range groups {
		if i < len(groups)-1 {
			if group, ok = strings.CutPrefix(group, "x"); !ok {
				return 0, 0, false
			}
		}
		if len(group) != 3 || !isDigits(group) {
			return 0, 0, false
		}
		n, _ := strconv.Atoi(group)
		index = index*1000 + int64(n)
	}
	return index, width, true
}

func isDigits(text string) bool {
	return strings.Trim(text, "0123456789") == ""
}
