// Package compat has other Redlock clients contend with this library for the same keys on the
// same real servers: redsync, and node-redlock 4 and 5, which run in processes of their own.
//
// It is a module of its own, so that the library depends on none of them. The node-redlocks
// need node and npm, which installs what node/package-lock.json names. Where they are
// missing, their tests are skipped, and fail if CI=true.
package compat
