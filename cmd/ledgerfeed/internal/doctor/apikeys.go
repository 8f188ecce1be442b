package doctor

import (
	"context"
	"fmt"

	"github.com/ledgerfeed/ledgerfeed/internal/plural"
)

// checkAPIKeys looks for keys that were made under another brand: a key begins with the
// brand, so that all of them are refused once LEDGERFEED_BRAND is another one.
func checkAPIKeys(ctx context.Context, x *examination) ([]Finding, error) {
	var (
		live, refused int
		brand         string // of some of those that are refused
	)
	// A prefix is the brand, an underscore and 8 characters.
	err := x.pool.QueryRow(ctx, `
		SELECT count(*), count(*) FILTER (WHERE brand <> $2), coalesce(min(brand) FILTER (WHERE brand <> $2), '')
		  FROM (SELECT left(s.prefix, -9) AS brand
		          FROM api_key k JOIN api_key_secret s USING (workspace_id, key_id)
		         WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > $1) AND NOT s.ended AND (s.ends_at IS NULL OR s.ends_at > $1)) b`,
		x.env.Clock(), x.env.Settings.Brand.KeyPrefix()).Scan(&live, &refused, &brand)
	if err != nil {
		return nil, fmt.Errorf("cannot read the API keys: %w", err)
	}
	if refused == 0 {
		return ok("%d can be used", live), nil
	}
	return []Finding{{
		Level: Error, Text: fmt.Sprintf("%d of %d %s made under another brand, such as %s, than LEDGERFEED_BRAND, which is %s", refused, live, plural.Word(refused, "is refused: it was", "are refused: they were"), brand, x.env.Settings.Brand),
		Do: "set LEDGERFEED_BRAND to what it was, or rotate or revoke these keys (ledgerfeed key list)",
	}}, nil
}
