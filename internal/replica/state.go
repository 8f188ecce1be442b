package replica

// State is how a replica is.
type State struct {
	Name    string  `json:"replica"` // host:port
	Used    bool    `json:"used"`
	Behind  float64 `json:"behind_seconds"` // at most; meaningless where it is not used
	Problem string  `json:"problem,omitempty"`
}
