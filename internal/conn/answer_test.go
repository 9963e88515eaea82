package conn

import (
	"errors"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestErrorsThatEndAConnection(t *testing.T) {
	for _, s := range []string{
		"READONLY You can't write against a read only replica.",
		"READONLY You can't write against a read only replica. script: 5cb4, on @user_script:1.",
		"ERR Error running script (call to f_5cb4): @user_script:12: @user_script: 12: -READONLY You can't write against a read only replica.",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"NOAUTH Authentication required.",
	} {
		require.ErrorContains(t, WrongServer(redis.Error(s)), s)
	}
	for _, s := range []string{
		"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.", "OOM command not allowed",
		"MISCONF Redis is configured to save RDB snapshots", "NOPERM this user has no permissions", "NOSCRIPT No matching script.",
		"MOVED 1 10.0.0.1:6379", "CLUSTERDOWN Hash slot not served", "NOREPLICAS Not enough good replicas to write.", "READONLYX y", "ERR READONLY x",
	} {
		require.NoError(t, WrongServer(redis.Error(s)), s)
	}
	assert.NoError(t, WrongServer(nil))
	assert.NoError(t, WrongServer(errors.New("READONLY x")), "not the server's")
}

// Whatever a server answers is no reason to panic.
func TestFieldsOfAnAnswer(t *testing.T) {
	for _, reply := range []any{nil, int64(1), []byte("x"), "OK"} {
		_, err := Answer{Reply: reply}.Fields()
		require.Error(t, err)
	}
	fields, err := Answer{Reply: []any{[]byte("flags"), []any{[]byte("on"), "nopass"}, "keys", []byte("~*"), "odd"}}.Fields()
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"flags": "[on nopass]", "keys": "~*"}, fields)
	_, err = Answer{Err: redis.Error("NOPERM no")}.Fields()
	require.EqualError(t, err, "NOPERM no")
}
