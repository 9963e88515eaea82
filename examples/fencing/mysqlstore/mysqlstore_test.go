package mysqlstore

import (
	"database/sql"
	"testing"

	_ "github.com/go-sql-driver/mysql" // The driver "mysql".

	"github.com/seed6c881748/redlock/examples/fencing/internal/fencetest"
	"github.com/seed6c881748/redlock/test/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// databases runs a test with both ways in which clients can have rows counted.
func databases(t *testing.T, test func(t *testing.T, open func(t *testing.T) *sql.DB)) {
	t.Helper()
	t.Parallel()
	for name, parameters := range map[string]string{"Changed": "", "Found": "?clientFoundRows=true"} {
		t.Run(name, func(t *testing.T) {
			test(t, func(t *testing.T) *sql.DB {
				t.Helper()
				return fencetest.Open(t, "mysql", testdb.MariaDB(t)+parameters, Schema)
			})
		})
	}
}

var accounts = fencetest.Accounts[DB]{
	Put: Put, Write: Write, Read: Read, Stale: ErrStale, NotFound: ErrNotFound,
	Stored:  `SELECT balance, fence FROM account WHERE id = ?`,
	Others:  []string{"Joint", "joint ", "jöint"},
	History: `CREATE TABLE history (nr BIGINT PRIMARY KEY AUTO_INCREMENT, fence BIGINT NOT NULL)`,
	First:   `SELECT COUNT(*) FROM history`, // The transaction has its snapshot before it reads the balance.
	Append:  `INSERT INTO history (fence) VALUES (?)`,
}

func TestWriteRefusesEarlierHolders(t *testing.T)   { databases(t, accounts.WriteRefuses) }
func TestPutRefusesEarlierHolders(t *testing.T)     { databases(t, accounts.PutRefuses) }
func TestARepeatedWriteIsNotRefused(t *testing.T)   { databases(t, accounts.Repeated) }
func TestNoSuchAccount(t *testing.T)                { databases(t, accounts.NoSuchAccount) }
func TestTransactionIsRefusedAsAWhole(t *testing.T) { databases(t, accounts.Transaction) }
func TestErrorsOfTheDatabase(t *testing.T)          { databases(t, accounts.Errors) }
