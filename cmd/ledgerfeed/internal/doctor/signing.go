package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/cmd/ledgerfeed/internal/proof"
	"github.com/ledgerfeed/ledgerfeed/internal/signingkey"
	"github.com/ledgerfeed/ledgerfeed/readapi/reference"
)

// checkSigningKey compares the key that signs here with the keys that the service shows to
// others at its public address. A service without one signs nothing, which is a choice.
func checkSigningKey(ctx context.Context, x *examination) ([]Finding, error) {
	set := &x.env.Settings
	keys, err := proof.ReadKeys(x.env)
	if err != nil {
		return nil, err
	}
	if keys == nil {
		return ok("none: nothing is signed; docs/proof.md says what for"), nil
	}
	name, err := signingkey.Host(set.BaseURL)
	if err != nil {
		return nil, err
	}
	own, err := keys.Verifiers(name)
	if err != nil {
		return nil, err
	}
	address := set.BaseURL + reference.KeysTextPath
	shown, err := shownKeys(ctx, address)
	if err != nil {
		return ok("%d; those that the service shows could not be compared from here: %v", len(own), err), nil
	}
	if strings.Join(shown, " ") != strings.Join(own, " ") {
		return []Finding{{
			Level: Error, Text: fmt.Sprintf("this process signs with keys that %s does not list", address),
			Do: "give every process the same LEDGERFEED_SIGNING_KEY and LEDGERFEED_BASE_URL, and restart those that serve",
		}}, nil
	}
	return ok("%d, as %s shows", len(own), address), nil
}

// maxShown bounds what is read of the page with the keys, in bytes.
const maxShown = 64 << 10

// shownKeys reads the verifier keys that a service shows.
func shownKeys(ctx context.Context, address string) (keys []string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", address, err)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask for the keys: %w", err)
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxShown))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", address, err)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s is answered %d", address, response.StatusCode)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			keys = append(keys, line)
		}
	}
	return keys, nil
}
