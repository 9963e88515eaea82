package otelredlock

// The attributes. Those of OpenTelemetry's semantic conventions have their names there; the others have
// the library's as their namespace, as the conventions ask.
const (
	keyError     = "error.type"
	keyClass     = "redlock.resource.class"
	keySemaphore = "redlock.semaphore"
	keyOperation = "redlock.operation"
	keyNode      = "redlock.node.name"
	keyVote      = "redlock.vote"
	keyCause     = "redlock.hold.end"
	keyMeet      = "redlock.quorums.meet"

	keyResources = "redlock.resources"
	keyAttempt   = "redlock.attempt"
	keyAttempts  = "redlock.attempts"
	keyFence     = "redlock.fence"
	keySlot      = "redlock.slot"
	keyHolder    = "redlock.holder"
	keyOwner     = "redlock.owner"
	keyPosition  = "redlock.position"
	keyVotesYes  = "redlock.votes.yes"
	keyDuration  = "redlock.duration"
	keyHeld      = "redlock.hold.duration"
	keyMessage   = "exception.message"
)

// The events of spans.
const (
	eventAttempt   = "redlock.attempt"
	eventVote      = "redlock.vote"
	eventWaiting   = "redlock.waiting"
	eventAtRisk    = "redlock.hold.at_risk"
	eventHoldEnded = "redlock.hold.ended"
)
