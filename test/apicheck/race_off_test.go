//go:build !race

package apicheck

const raceFlag = "-race=false"
