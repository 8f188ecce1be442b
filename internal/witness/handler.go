package witness

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxBody bounds a request's body, in bytes: 63 hashes and a checkpoint with at least 16
// signatures of any kind.
const maxBody = 128 << 10

// Handler answers add-checkpoint, and reads of the last checkpoint of a log.
func (w *Witness) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add-checkpoint", w.addCheckpoint)
	mux.HandleFunc("GET /{hash}/checkpoint", w.checkpoint)
	return mux
}

func (w *Witness) addCheckpoint(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxBody))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		answer(rw, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is longer than %d bytes\n", maxBody))
		return
	case err != nil:
		answer(rw, http.StatusBadRequest, "the request was broken off\n")
		return
	}
	line, err := w.AddCheckpoint(r.Context(), body)
	var refused *RefusedError
	switch {
	case err == nil:
		answer(rw, http.StatusOK, line)
	case !errors.As(err, &refused):
		w.failed(rw, r, err)
	case refused.Status == http.StatusConflict:
		rw.Header().Set("Content-Type", "text/x.tlog.size")
		answer(rw, refused.Status, fmt.Sprintf("%d\n", refused.Known))
	default:
		answer(rw, refused.Status, refused.Sentence+"\n")
	}
}

func (w *Witness) checkpoint(rw http.ResponseWriter, r *http.Request) {
	signed, err := w.Checkpoint(r.PathValue("hash"))
	switch {
	case err != nil:
		w.failed(rw, r, err)
	case signed == nil:
		answer(rw, http.StatusNotFound, "this witness has cosigned no checkpoint of such a log\n")
	default:
		answer(rw, http.StatusOK, string(signed))
	}
}

// failed answers where the fault is the witness's own; what it is stands in the log.
func (w *Witness) failed(rw http.ResponseWriter, r *http.Request, err error) {
	w.logger.ErrorContext(r.Context(), "a request cannot be answered", "path", r.URL.Path, "error", err)
	answer(rw, http.StatusInternalServerError, "the witness cannot answer; its log says why\n")
}

func answer(rw http.ResponseWriter, status int, text string) {
	h := rw.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	rw.WriteHeader(status)
	_, _ = io.WriteString(rw, text) // a client that left does not need it
}
