package chart

import "github.com/ledgerfeed/ledgerfeed/internal/rollup"

// The series of a chart of requests, in their order.
const (
	Succeeded = iota
	ClientError
	ServerError
	Refused
)

// RequestSeries are the series of a chart of requests.
func RequestSeries() []Series {
	return []Series{
		{Name: "Succeeded", Look: Good}, {Name: "Client errors", One: "client error", Look: Wait},
		{Name: "Server errors", One: "server error", Look: Bad}, {Name: "Refused", Look: Quiet},
	}
}

// OfKind is the series of requests of a kind, as rollup.Reader.Requests counts them.
func OfKind(kind string) int {
	switch kind {
	case rollup.KindClientError:
		return ClientError
	case rollup.KindServerError:
		return ServerError
	case rollup.KindRefused:
		return Refused
	}
	return Succeeded
}
