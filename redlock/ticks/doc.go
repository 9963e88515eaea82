// Package ticks has one of several processes run a job at each tick of a schedule. It is for code that connects a
// scheduler with the library, and has the parts that all such code needs. For cron and gocron, there are modules in
// integrations/.
//
// All processes try to lock the job when it ticks. The one that gets the lock runs the job, and the others leave out
// this tick. The min hold keeps the job locked for those that come late:
//
//	jobs, err := ticks.NewLocker(r, time.Minute, 10*time.Second, 5*time.Second)
//	if err != nil {
//		log.Fatal(err)
//	}
//
//	lock, err := jobs.Lock(ctx, "report", time.Since(tick))
//	if errors.Is(err, redlock.ErrTaken) {
//		return // Another process runs it.
//	}
package ticks
