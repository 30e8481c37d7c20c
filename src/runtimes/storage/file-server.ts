/**
 * The port to a file server: volumes of a fixed size, each exported to an exact list of addresses. The list is replaced
 * as a whole, so that repeated or late calls are harmless.
 */

export interface FileServer {
  /** The address that clients mount from. */
  readonly vip: string
  /** Throws an error with a readable sentence when an export is not served. */
  check(signal: AbortSignal): Promise<void>
  /** All volumes with their faults. An error is never an empty list. */
  list(signal: AbortSignal): Promise<StoredVolume[]>
  /** Returns the size of the largest volume that fits now. May be slightly out of date. */
  roomGb(): Promise<number>
  /**
   * Creates a volume. Idempotent. Resolves once the data is on disk. Throws `StorageFull`, leaving nothing behind, when
   * it does not fit besides all promised volumes.
   */
  create(id: string, sizeGb: number, signal: AbortSignal): Promise<void>
  /** Deletes the data. Idempotent; refused while there are clients. */
  destroy(id: string, signal: AbortSignal): Promise<void>
  /** Gives access to exactly these addresses, once it resolves; others lose theirs, even if they have it mounted. */
  setClients(id: string, addresses: readonly string[], signal: AbortSignal): Promise<void>
  /** The path for `mount -t nfs4 <vip>:<path>`. */
  exportPath(id: string): string
  /** Detaches from the daemon, which still serves clients until the next process adopts it. */
  close(): Promise<void>
  /** Stops serving, so that clients hang. The data stays. */
  shutDown(): Promise<void>
}

export interface StoredVolume {
  readonly id: string
  readonly sizeGb: number
  readonly clients: readonly string[]
  /** Why it is unusable: data missing or not mountable. null: fine. */
  readonly fault: string | null
}

/** The part of a pino logger that is used here. */
export interface StorageLog {
  info(detail: object, message: string): void
  warn(detail: object, message: string): void
}

/** The disk has no space for a volume, so it is not created. */
export class StorageFull extends Error {}
