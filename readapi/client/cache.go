package client

import (
	"container/list"
	"sync"
)

// cache keeps the newest answers by their address, for conditional requests. A nil cache is empty.
type cache struct {
	mu      sync.Mutex
	most    int
	byURL   map[string]*list.Element // of *kept
	byUsage *list.List               // the last used first
}

type kept struct {
	url    string
	answer *answer
}

func newCache(most int) *cache {
	return &cache{most: most, byURL: map[string]*list.Element{}, byUsage: list.New()}
}

func (c *cache) get(url string) *answer {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byURL[url]
	if e == nil {
		return nil
	}
	c.byUsage.MoveToFront(e)
	return e.Value.(*kept).answer
}

func (c *cache) put(url string, a *answer) {
	if c == nil || a.header.Get("ETag") == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byURL[url]; e != nil {
		c.byUsage.Remove(e)
	}
	c.byURL[url] = c.byUsage.PushFront(&kept{url, a})
	if last := c.byUsage.Back(); c.byUsage.Len() > c.most {
		c.byUsage.Remove(last)
		delete(c.byURL, last.Value.(*kept).url)
	}
}
