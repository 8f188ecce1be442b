package chart

import "time"

// Choice is a time that charts can show, up to now.
type Choice struct {
	Name  string // in addresses
	Label string
	Title string // in titles of charts
	Width time.Duration
	Spans int
}

// Choices are the times to choose from.
func Choices() []Choice {
	return []Choice{
		{"hour", "1 hour", "in the last hour, by minute", time.Minute, 60},
		{"day", "24 hours", "in the last 24 hours, by hour", time.Hour, 24},
		{"week", "7 days", "in the last 7 days, by 6 hours", 6 * time.Hour, 28},
		{"month", "30 days", "in the last 30 days, by day", 24 * time.Hour, 30},
	}
}

// Choose finds a choice by its name; without one of that name it is the other.
func Choose(name, otherwise string) Choice {
	var found Choice
	for _, c := range Choices() {
		if c.Name == name {
			return c
		}
		if c.Name == otherwise {
			found = c
		}
	}
	return found
}

// Link leads to a page whose charts show a Choice.
type Link struct {
	Label, URL string
	Current    bool
}

// Switch has a link for each choice, whose address is made from its name.
func (c Choice) Switch(address func(name string) string) []Link {
	links := make([]Link, 0, len(Choices()))
	for _, other := range Choices() {
		links = append(links, Link{other.Label, address(other.Name), other.Name == c.Name})
	}
	return links
}
