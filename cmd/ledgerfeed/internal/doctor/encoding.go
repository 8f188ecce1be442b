package doctor

import (
	"context"
	"errors"

	"github.com/ledgerfeed/ledgerfeed/internal/pg"
)

// checkEncoding looks whether the database can keep every character.
func checkEncoding(ctx context.Context, x *examination) ([]Finding, error) {
	err := pg.CheckEncoding(ctx, x.pool)
	if wrong, ok := errors.AsType[*pg.EncodingError](err); ok {
		return []Finding{{
			Level: Error, Text: "the database has the encoding " + wrong.Encoding + ", which cannot keep every character of the log",
			Do: wrong.Do() + "; ledgerfeed export and append --restore bring the log there",
		}}, nil
	}
	if err != nil {
		return nil, err
	}
	return ok("UTF8"), nil
}
