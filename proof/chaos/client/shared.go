package client

import (
	"github.com/seed6c881748/redlock/proof/chaos/protocol"
	"github.com/seed6c881748/redlock/proof/history"
)

// A Recorder tells the observer what a client of another library does.
type Recorder struct{ r *recorder }

// NewRecorder connects to the observer of the configuration.
func NewRecorder(cfg protocol.Config) (*Recorder, error) {
	r, err := newRecorder(cfg)
	return &Recorder{r}, err
}

// Log tells of an event, as of now if it has no time.
func (r *Recorder) Log(e history.Event) { r.r.log(e) }

// Ask has the observer carry out an operation on a register, and returns it with the answer.
func (r *Recorder) Ask(e history.Event) history.Event { return r.r.ask(e) }
