/** How much these pages read, and how often. */

/** The command line pages through more. */
export const MACHINES_SHOWN = 1_000
/** Hosts raise no events, so they are polled. */
export const HOSTS_EVERY_MS = 5_000
