package postgres

import "time"

// Bounds are the sizes and time limits inside this room; see package bounds.
type Bounds struct {
	Names int `bound:"65536"` // endpoints, and kinds of events, whose numbers are kept in memory

	// Writers. A transaction takes so many requests that its cost is spread thin, and so few that
	// their callers do not wait long.
	Requests     int   `bound:"256"`           // in one transaction
	RequestBytes int64 `bound:"4MiB" tiny:"8"` // in one transaction, after which it takes no more
	Line         int   `bound:"256"`           // requests in line; callers beyond it wait to get in
	Enough       int   `bound:"16"`            // requests with which a transaction starts at once: a sync costs each less than its rows
	Tries        int   `bound:"10" least:"8"`  // of a transaction that others spoil
	Slots        int   `bound:"16"`            // rows that a count is spread over, so that writers need not wait for each other

	// Pages: rows in one statement, or in one transaction.
	EndPage     int   `bound:"1000"`            // deliveries ended or hastened
	PurgePage   int   `bound:"500"`             // events looked at; others that refer to finished deliveries wait meanwhile
	SweepPage   int   `bound:"2000"`            // rows left over from a deleted day
	MergePage   int   `bound:"1000"`            // totals
	DropPage    int   `bound:"10000"`           // rows of a tenant whose arrival is undone
	MoveTell    int64 `bound:"10000"`           // rows copied between two reports of progress
	ListPage    int   `bound:"1000"`            // events listed
	ListTargets int   `bound:"512"`             // endpoints, or kinds, that a list looks at one by one; with more it scans from the newest row on
	SearchPage  int   `bound:"200"`             // deliveries searched
	SearchMost  int   `bound:"2000"`            // deliveries that one call searches
	SearchBytes int64 `bound:"32MiB" tiny:"64"` // event data that one call searches

	// Days.
	DaysAhead int           `bound:"2"`             // days after today that have tables
	DaysNamed int           `bound:"3"`             // days whose tables a statement names; connections keep its text
	DayStays  int           `bound:"5000"`          // rows that survive when a day is cleared: they are written anew while nobody else reads
	DayWorth  int           `bound:"4"`             // times more rows must go than stay
	DayAgain  time.Duration `bound:"1h" tiny:"1ms"` // until a day with too many surviving rows is looked at again

	Changes int `bound:"1024"` // latest versions of the configuration of which it is kept what they changed

	Conns Conns
}
