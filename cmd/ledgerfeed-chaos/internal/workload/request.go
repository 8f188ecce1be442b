//go:build linux

package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// get makes a request with a key.
func get(ctx context.Context, client *http.Client, address, key string) (status int, body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot ask: %w", err)
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, nil, fmt.Errorf("cannot ask: %w", err)
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, errors.Join(errors.New("the answer was cut"), err)
	}
	return response.StatusCode, body, nil
}
