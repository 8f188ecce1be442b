package cli

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/ledgerfeed/ledgerfeed/internal/brand"
)

// BrandNotice says which brand keys will have, where the setting was not given and there is no key
// yet, because it cannot be changed afterwards; empty: there is nothing to say.
func BrandNotice(ctx context.Context, of brand.Brand, pool *pgxpool.Pool) (string, error) {
	if of != (brand.Brand{}) {
		return "", nil
	}
	var keys bool
	if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM api_key)`).Scan(&keys); err != nil || keys {
		return "", err
	}
	return fmt.Sprintf("API keys, the User-Agent and the header names of webhooks begin with %s, because LEDGERFEED_BRAND is not set; it cannot be changed once there are keys", of), nil
}
