/** The loss of a whole connection, told apart from the end of one of its streams, also through servers that forward it. */

/** The error of a stream whose whole connection has ended, here or at a server that forwards it. */
export class MuxClosed extends Error {}

/** Starts the reason of a reset because of it. */
const PREFIX = 'connection closed: '

export function resetReason(error: Error | null): string {
  return `${error instanceof MuxClosed ? PREFIX : ''}${error?.message ?? ''}`
}

export function resetError(reason: string): Error {
  if (reason.startsWith(PREFIX)) return new MuxClosed(reason.slice(PREFIX.length))
  return new Error(reason || 'the other side has closed the stream')
}
