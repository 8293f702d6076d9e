package classifier

// ScanStatus is for the fuzz test of the text rule.
var ScanStatus = scanStatus
