package table

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ledgerfeed/ledgerfeed/domain"
)

// Fold is the fold of a workspace's log, or of a segment with the rows that the
// segment needs. It keeps all anomalies, which a domain.State forgets at Reset.
type Fold struct {
	State     *domain.State
	anomalies []domain.Anomaly // from before the last Reset, in the order of the log
}

// NewFold returns the fold of an empty log.
func NewFold() *Fold { return &Fold{State: domain.NewState()} }

// Reset clears the record of changed rows; rows and anomalies stay.
func (f *Fold) Reset() {
	f.anomalies = append(f.anomalies, f.State.Anomalies...)
	f.State.Reset()
}

// store is where a Fold keeps the rows of one table, by unique ids. For rows with two key columns,
// the domain joins both into the id.
type store[P any] interface {
	Get(id string) P
	All(visit func(P))
	Load(row P)
	Changed() []P
	Gone() []string // ids of deleted rows
}

// anomalies is the store of a Fold's anomalies. Nothing loads or deletes them.
type anomalies struct{ *Fold }

// anomalyID is the id of an anomaly in the store.
func anomalyID(k Key) string { return k[0] + "/" + k[1] }

func (a anomalies) Get(id string) *domain.Anomaly {
	number, reason, _ := strings.Cut(id, "/")
	position, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return nil // not even a position
	}
	for _, list := range [][]domain.Anomaly{a.anomalies, a.State.Anomalies} {
		i, _ := slices.BinarySearchFunc(list, position, func(x domain.Anomaly, p int64) int { return int(x.Position - p) })
		for ; i < len(list) && list[i].Position == position; i++ {
			if string(list[i].Reason) == reason {
				return &list[i]
			}
		}
	}
	return nil
}

func (a anomalies) All(visit func(*domain.Anomaly)) {
	for i := range a.anomalies {
		visit(&a.anomalies[i])
	}
	for _, x := range a.Changed() {
		visit(x)
	}
}

func (a anomalies) Load(*domain.Anomaly) {}

func (a anomalies) Changed() []*domain.Anomaly {
	list := make([]*domain.Anomaly, len(a.State.Anomalies))
	for i := range list {
		list[i] = &a.State.Anomalies[i]
	}
	return list
}

func (a anomalies) Gone() []string { return nil }
