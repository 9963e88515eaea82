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
		t := &telling{story: s, step: 1, text: s.steps[0].announces("Next, "), cancel: cancel, done: make(chan struct{})}
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

// tellStep announces what is done, does it, and says what has come of it. A sentence is shown for as long as it takes to
// read it, but no longer than it is so.
func (p *playground) tellStep(ctx context.Context, t *telling, number int, s step) bool {
	if s.does != "" {
		p.show(t, number, s.announces("Next, "))
		if !sleep(ctx, p.pause) {
			return false
		}
		p.show(t, number, s.announces("Now "))
	}
	if !p.perform(ctx, s.does) || !p.await(ctx, t, number, s) {
		return false
	}
	if s.then != "" {
		p.show(t, number, "Now "+plan(s.then)+".")
	}
	if !p.perform(ctx, s.then) {
		return false
	}
	text := ""
	s.until = func(st *stage) bool {
		text = s.says(st)
		if text != "" {
			t.step, t.text = number, text
			p.say(tale, "", "%s", text)
		}
		return text != ""
	}
	return p.await(ctx, t, number, s) && p.read(ctx, text, s)
}

// announces says what the step is about to do, or what it waits for.
func (s *step) announces(when string) string {
	if s.does == "" {
		return "Waiting until " + s.waits + "."
	}
	return when + plan(s.does) + "."
}

func (p *playground) show(t *telling, number int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.step != number || t.text != text {
		t.step, t.text = number, text
		p.rec.add()
	}
}

// perform presses buttons, one after the other.
func (p *playground) perform(ctx context.Context, buttons string) bool {
	for what := range strings.SplitSeq(buttons, ",") {
		verb, whom, _ := strings.Cut(what, " ")
		if what != "" && (p.act(verb, whom) != nil || !sleep(ctx, min(p.pause/6, p.ttl/16))) {
			return false
		}
	}
	return true
}

// await waits for what a step is about, which may take a ttl and more. It reports whether that has come.
func (p *playground) await(ctx context.Context, t *telling, number int, s step) bool {
	for end := time.Now().Add(3*p.ttl + 4*nodeTimeout); ; {
		if s.until == nil || p.isSo(s.until) {
			return true
		}
		p.show(t, number, "Waiting until "+s.waits+".")
		if time.Now().After(end) || !sleep(ctx, lookEvery/2) {
			return false
		}
	}
}

// read gives time to read a sentence, as long as it is so.
func (p *playground) read(ctx context.Context, text string, s step) bool {
	for end := time.Now().Add(p.pause); time.Now().Before(end); {
		if !sleep(ctx, min(p.pause, lookEvery/2)) {
			return false
		}
		if !p.isSo(func(st *stage) bool { return s.says(st) == text }) {
			break
		}
	}
	return true
}

// isSo looks at the stage as it is now.
func (p *playground) isSo(so func(*stage) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.st.readKeys()
	return so(p.st)
}

// plan says what these buttons do, in the order in which they are pressed.
func plan(buttons string) string {
	var parts []string
	all := strings.Split(buttons, ",")
	for i := 0; i < len(all); {
		does, _, _ := strings.Cut(all[i], " ")
		var whom []string
		for ; i < len(all) && strings.HasPrefix(all[i], does+" "); i++ {
			whom = append(whom, strings.TrimPrefix(all[i], does+" "))
		}
		parts = append(parts, deeds[does](whom))
	}
	return list(parts)
}

// deeds say what the buttons of stories do.
var deeds = map[string]func(whom []string) string{
	"lock":    ofClient("asks for the lock"),
	"keep":    ofClient("keeps its lock alive"),
	"let":     ofClient("extends its lock no more"),
	"release": ofClient("releases the lock"),
	"suspend": ofClient("is suspended"),
	"resume":  ofClient("goes on"),
	"write":   ofClient("writes to the register"),
	"kill":    ofNodes("is killed", "are killed"),
	"restart": ofNodes("is restarted with its keys", "are restarted with their keys"),
	"empty":   ofNodes("is restarted without its keys", "are restarted without their keys"),
}

func ofClient(does string) func([]string) string {
	return func(whom []string) string { return "client " + list(whom) + " " + does }
}

func ofNodes(one, many string) func([]string) string {
	return func(whom []string) string { return nodesText(whom) + " " + verb(whom, one, many) }
}
