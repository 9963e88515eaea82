package released

import _ "github.com/seed6c881748/redlock/integrations/redsync" // What is judged here.
