package requestlog

// RemoveLockTimeout is how long others may wait behind the removal of old requests.
const RemoveLockTimeout = removeLockTimeout
