// This file gives the console the colour and the logo of the product that it belongs to.

package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/internal/texts"
)

// Theme sets the product name, the accent colour and the logo.
type Theme struct {
	Name   string // product name, in titles and next to the logo; empty: Ledgerfeed
	Accent Colour // colour of links, buttons and the selected item; zero value: the console's own
	Logo   Logo   // zero value: the console's own
}

// Colour is a colour in RGB; the zero value means none is set.
type Colour struct {
	red, green, blue float64 // 0 to 255
	set              bool
}

// UnmarshalText reads a colour in the form #rrggbb.
func (c *Colour) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "#")
	n, err := strconv.ParseUint(digits, 16, 32)
	if !ok || err != nil || len(digits) != 6 {
		return errors.New("want a colour in the form #rrggbb")
	}
	*c = Colour{float64(n >> 16), float64(n >> 8 & 0xff), float64(n & 0xff), true}
	return nil
}

// String writes the colour as #rrggbb; empty for the zero value.
func (c Colour) String() string {
	if !c.set {
		return ""
	}
	return fmt.Sprintf("#%02x%02x%02x", int(math.Round(c.red)), int(math.Round(c.green)), int(math.Round(c.blue)))
}

// mixed returns the colour mixed with a part, from 0 to 1, of another one.
func (c Colour) mixed(with Colour, part float64) Colour {
	mix := func(x, y float64) float64 { return x + (y-x)*part }
	return Colour{mix(c.red, with.red), mix(c.green, with.green), mix(c.blue, with.blue), true}
}

// luminance returns the relative luminance of WCAG 2.2.
func (c Colour) luminance() float64 {
	linear := func(v float64) float64 {
		if v /= 255; v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c.red) + 0.7152*linear(c.green) + 0.0722*linear(c.blue)
}

// contrast returns the contrast ratio of WCAG 2.2, from 1 to 21.
func contrast(x, y Colour) float64 {
	a, b := x.luminance(), y.luminance()
	return (max(a, b) + 0.05) / (min(a, b) + 0.05)
}

// readable is the contrast ratio that text needs, with room for rounding.
const readable = 4.6

// scheme is the light or the dark look. Text in the accent colour has surface, paper or the tint as
// its background, as in console.css; ink darkens or lightens it until it is readable.
type scheme struct {
	surface, paper, ink Colour
	tint                float64 // share of the accent in the background of a selected item
}

func schemes() (light, dark scheme) {
	white, black := Colour{255, 255, 255, true}, Colour{0, 0, 0, true}
	return scheme{surface: white, paper: Colour{0xf6, 0xf6, 0xf3, true}, ink: black, tint: 0.12},
		scheme{surface: Colour{0x19, 0x1f, 0x26, true}, paper: Colour{0x11, 0x16, 0x1b, true}, ink: white, tint: 0.18}
}

// variables returns the variables of console.css that depend on the accent. It changes the accent
// only as far as readability needs.
func (s *scheme) variables(accent Colour) string {
	tint := s.surface.mixed(accent, s.tint)
	text := accent
	for part := 0.0; part <= 1; part += 0.02 {
		text = accent.mixed(s.ink, part)
		if min(contrast(text, s.surface), contrast(text, s.paper), contrast(text, tint)) >= readable {
			break
		}
	}
	on := s.surface
	if contrast(text, s.paper) > contrast(text, s.surface) {
		on = s.paper
	}
	return fmt.Sprintf("--accent: %s; --accent-strong: %s; --on-accent: %s; --tint: %s;", text, text.mixed(s.ink, 0.25), on, tint)
}

// CSS returns the rules to append to console.css; empty without a colour.
func (t *Theme) CSS() []byte {
	if !t.Accent.set {
		return nil
	}
	light, dark := schemes()
	return []byte("\n:root { " + light.variables(t.Accent) + " }\n@media (prefers-color-scheme: dark) { :root { " + dark.variables(t.Accent) + " } }\n")
}

// maxLogo is the maximum size of a logo, in bytes. Every page shows it.
const maxLogo = 256 << 10

// Logo is the content of a logo file.
type Logo struct {
	Body []byte
	Type string // ".svg" or ".png"
}

// ReadLogo reads a picture in SVG or PNG of at most 256 KiB. The error names the file.
func ReadLogo(file string) (Logo, error) {
	f, err := os.Open(filepath.Clean(file))
	if err != nil {
		return Logo{}, fmt.Errorf("cannot read the logo: %w", err)
	}
	defer func() { _ = f.Close() }()
	body, err := io.ReadAll(io.LimitReader(f, maxLogo+1))
	if err != nil {
		return Logo{}, fmt.Errorf("cannot read the logo: %w", err)
	}
	switch {
	case len(body) > maxLogo:
		return Logo{}, fmt.Errorf("the logo in %s has more than %d KiB", file, maxLogo>>10)
	case http.DetectContentType(body) == "image/png":
		return Logo{body, ".png"}, nil
	case strings.HasPrefix(http.DetectContentType(body), "text/") && bytes.Contains(body, []byte("<svg")):
		return Logo{body, ".svg"}, nil
	}
	if _, err := texts.Plain(body); err != nil {
		return Logo{}, fmt.Errorf("the logo in %s cannot be read: %w", file, err)
	}
	return Logo{}, fmt.Errorf("the logo in %s is not a picture in SVG or PNG", file)
}
