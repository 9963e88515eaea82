// Package redigo does not compile with a redigo that is too old. The name of its type says what to do then.
package redigo

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// Redigo v2.0.0+incompatible is older than v1.8, despite its number, and any go.mod that requires it makes it win. Its
// connections cannot be cut off, so no request could be given up on: the library cannot use it. The type's name stands
// for the line
//
//	go mod edit -exclude=github.com/gomodule/redigo@v2.0.0+incompatible
//
// After that, go mod tidy takes the redigo that this module requires, which has everything that the old one has.
type redigo_is_older_than_v1_8_so_run__go_mod_edit_exclude_redigo_v2_0_0_incompatible__as_docs_errors_md_says interface { //nolint:revive // It is what a compiler says.
	ReceiveContext(ctx context.Context) interface{}
}

var _ redigo_is_older_than_v1_8_so_run__go_mod_edit_exclude_redigo_v2_0_0_incompatible__as_docs_errors_md_says = redis.PubSubConn{}
