package main

import (
	"context"
	"strings"
	"time"
)

// A telling is a story that is being told.
type telling struct {
	story
	step   int
	text   string
	cancel context.CancelFunc
	done   chan struct{}
}

// play begins a story, and ends another one.
func (p *playground) play(name string) error {
	for _, s := range stories {
		if s.name != name {
			continue
		}
		p.stopStory()
		if err := p.startOver(s.quarantine); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(p.ctx)
		t := &telling{story: s, step: 1, text: s.steps[0].announces(), cancel: cancel, done: make(chan struct{})}
		p.mu.Lock()
		p.story = t
		p.mu.Unlock()
		go func() {
			defer close(t.done)
			p.tell(ctx, t)
		}()
		return nil
	}
	return errUnknown
}

func (p *playground) stopStory() {
	p.mu.Lock()
	t := p.story
	p.story = nil
	p.mu.Unlock()
	if t != nil {
		t.cancel()
		<-t.done
	}
}

// tell plays a story to its end, or until somebody stops it.
func (p *playground) tell(ctx context.Context, t *telling) {
	defer t.cancel()
	last := "That was “" + t.title + "”. Everything is as the story left it: go on from here, or play another one."
	for i, s := range t.steps {
		if !p.tellStep(ctx, t, i+1, s) {
			last = "“" + t.title + "” ends here. It went on only if " + s.waits + ", and that has not come."
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.story == t && ctx.Err() == nil {
		p.story = nil
		p.say(tale, "", "%s", last)
	}
}

// tellStep announces what is done, does it, waits for what comes of it, and says that. A sentence is shown for as long as
// it takes to read it, but no longer than it is so.
func (p *playground) tellStep(ctx context.Context, t *telling, number int, s step) bool {
	p.show(t, number, s.announces())
	if s.does != "" {
		if !sleep(ctx, p.pause) {
			return false
		}
		p.show(t, number, "Now "+s.next+".")
		for what := range strings.SplitSeq(s.does, ",") {
			verb, whom, _ := strings.Cut(what, " ")
			if p.act(verb, whom) != nil || !sleep(ctx, min(p.pause/6, p.ttl/16)) {
				return false
			}
		}
	}
	text := p.await(ctx, t, number, s)
	for end := time.Now().Add(p.pause); text != "" && time.Now().Before(end); {
		if !sleep(ctx, min(p.pause, lookEvery/2)) {
			return false
		}
		if !p.isSo(func(st *stage) bool { return s.says(st) == text }) {
			break
		}
	}
	return text != ""
}

// announces says what the step is about to do, or what it waits for.
func (s *step) announces() string {
	if s.does == "" {
		return "Waiting until " + s.waits + "."
	}
	return "Next, " + s.next + "."
}

func (p *playground) show(t *telling, number int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.step != number || t.text != text {
		t.step, t.text = number, text
		p.rec.add()
	}
}

// await waits for what a step is about, which may take a ttl and more, and says it. It returns the sentence, or "" if
// that has not come.
func (p *playground) await(ctx context.Context, t *telling, number int, s step) (text string) {
	said := func(st *stage) bool {
		if text = s.says(st); text != "" {
			t.step, t.text = number, text
			p.say(tale, "", "%s", text)
		}
		return text != ""
	}
	for end := time.Now().Add(3*p.ttl + 4*nodeTimeout); !p.isSo(said); {
		p.show(t, number, "Waiting until "+s.waits+".")
		if time.Now().After(end) || !sleep(ctx, lookEvery/2) {
			return ""
		}
	}
	return text
}

// isSo looks at the stage as it is now.
func (p *playground) isSo(so func(*stage) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.st.readKeys()
	p.st.record()
	return so(p.st)
}
