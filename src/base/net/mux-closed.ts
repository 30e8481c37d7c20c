/**
 * Distinguishes the loss of a whole connection from the end of one of its streams, even across servers that forward the
 * stream.
 */

/** The error of a stream whose whole connection has ended, here or at a server that forwards it. */
export class MuxClosed extends Error {}

/** The reason of a reset begins with this if the whole connection was lost. */
const PREFIX = 'connection closed: '

export function resetReason(error: Error | null): string {
  return `${error instanceof MuxClosed ? PREFIX : ''}${error?.message ?? ''}`
}

export function resetError(reason: string): Error {
  if (reason.startsWith(PREFIX)) return new MuxClosed(reason.slice(PREFIX.length))
  return new Error(reason || 'the other side has closed the stream')
}
