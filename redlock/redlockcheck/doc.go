// Package redlockcheck finds out whether Redis servers are fit to be the nodes of a
// [redlock.Redlock]. It looks for misconfigurations that cost exclusion or locks: a replica, a
// server given twice, a cache that evicts, rights that are missing, a clock that is off.
// docs/check.md lists what it looks at and what to do.
//
// It is for the start of a program, a health check, or a deployment's script, and takes what
// [redlock.New] takes:
//
//	opts := []redlock.Option{redlock.WithPrefix("locks:"), redlock.WithFencing()}
//	report, err := redlockcheck.Run(ctx, nodes, opts...)
//	if err != nil {
//		log.Fatal(err)
//	}
//	if report.Verdict() == redlockcheck.Unfit {
//		log.Fatal(report) // Says which node, why, and what to do.
//	}
//
//	r, err := redlock.New(nodes, opts...)
//	if err != nil {
//		log.Fatal(err)
//	}
package redlockcheck
