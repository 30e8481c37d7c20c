/** The requests of the downloader's callers. */
import type { Room } from './disk-budget.ts'
import type { Digest } from './file-digest.ts'
import type { Getter, GetOptions } from './http-get.ts'

export interface DownloadLimits {
  /** The idle timeout of an attempt. */
  readonly stallMs: number
  /** The delay after the first attempt without progress; it doubles each time, up to the longest. */
  readonly retryMs: number
  readonly maxRetryMs: number
  /** The limit of consecutive attempts without progress. */
  readonly maxIdleAttempts: number
}

export interface Address {
  readonly url: string
  /** An origin from our own settings, which is exempt from the guard. */
  readonly trustedOrigin: string | null
  readonly authorization: GetOptions['authorization']
}

export interface FileRequest extends Address {
  /** The name in messages; by default the end of the URL. */
  readonly name?: string
  readonly target: string
  /** The permissions of the complete file; by default only its owner has any. */
  readonly mode?: number
  /** null: not known beforehand. */
  readonly bytes: number | null
  readonly maxBytes?: number
  /**
   * `checked-later`: the caller knows only the digest of the file that this one is a part of. null: any content is
   * accepted.
   */
  readonly digest: Digest | 'checked-later' | null
  readonly room: Room
  readonly signal: AbortSignal
  readonly onBytes: (doneBytes: number, totalBytes: number | null) => void
}

export interface TextRequest extends Address {
  readonly accept: string
  readonly maxBytes: number
  readonly signal: AbortSignal
}

/** The tools of one attempt. */
export interface AttemptTools {
  readonly getter: Getter
  readonly limits: DownloadLimits
}
