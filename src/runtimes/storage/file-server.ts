/**
 * The port to a file server: volumes of a fixed size, each exported to an exact list of addresses. The list is replaced
 * as a whole, so that repeated or late calls are harmless.
 */

export interface FileServer {
  /** The address that clients mount from. */
  readonly vip: string
  /** Throws with a sentence when it does not serve all exports. */
  check(signal: AbortSignal): Promise<void>
  /** All volumes with their faults. An error is never an empty list. */
  list(signal: AbortSignal): Promise<StoredVolume[]>
  /** The largest volume that fits now. May be slightly out of date. */
  roomGb(): Promise<number>
  /**
   * Idempotent. Resolves once the data is on disk. Throws `StorageFull`, leaving nothing behind, when it does not fit
   * besides all promised volumes.
   */
  create(id: string, sizeGb: number, signal: AbortSignal): Promise<void>
  /** Deletes the data. Idempotent; refused while there are clients. */
  destroy(id: string, signal: AbortSignal): Promise<void>
  /** When it resolves, exactly these addresses have access; others lose theirs, even if they have it mounted. */
  setClients(id: string, addresses: readonly string[], signal: AbortSignal): Promise<void>
  /** For `mount -t nfs4 <vip>:<path>`. */
  exportPath(id: string): string
  /** Detaches. Clients are still served, and the next process adopts the daemon. */
  close(): Promise<void>
  /** Stops serving: clients hang. The data stays. */
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

/** A volume that could not be filled is not created. */
export class StorageFull extends Error {}
