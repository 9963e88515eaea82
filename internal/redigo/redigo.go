// Package redigo does not compile with a redigo that is too old, and says by its name for that what to do.
package redigo

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// Redigo v2.0.0+incompatible is older than v1.8, despite its number, and a go.mod that has it anywhere gets it. None of its
// connections can be cut off, which it takes for a request to be given up, so that there is no doing with it. The line that
// the type's name stands for is
//
//	go mod edit -exclude=github.com/gomodule/redigo@v2.0.0+incompatible
//
// after which go mod tidy takes the redigo that this module requires. It has all that the old one has.
type redigo_is_older_than_v1_8_so_run__go_mod_edit_exclude_redigo_v2_0_0_incompatible__as_docs_errors_md_says interface { //nolint:revive // It is what a compiler says.
	ReceiveContext(ctx context.Context) interface{}
}

var _ redigo_is_older_than_v1_8_so_run__go_mod_edit_exclude_redigo_v2_0_0_incompatible__as_docs_errors_md_says = redis.PubSubConn{}
