package readapi

import (
	"net/http"
	"sync"

	"github.com/go-chi/chi/v5"

	"github.com/ledgerfeed/ledgerfeed/readapi/answer"
	"github.com/ledgerfeed/ledgerfeed/readapi/wholelist"
)

// API answers requests; it is an http.Handler for a server made by NewServer.
type API struct {
	cfg      Config
	mux      *chi.Mux
	routing  sync.Pool // of *chi.Context
	answers  *answer.Renderer
	document []byte          // of /v1/openapi.json
	pages    map[string]page // that need no key, by path
	signer   signer
	keys     keyFinder
	cursors  *workspaceSealers
	tags     *tagger
	source   *source // Config.Pool
	copy     *source // nil: there is none
	places   *wholelist.Places
	cache    *answerCache
	waits    *waits
	metrics  *metrics
}

var _ http.Handler = (*API)(nil)
