/** `https://…`: a file at a URL. */
import { ok, type Result } from '../../contract/result.ts'
import { dropDownload, type Downloader } from '../download/downloader.ts'
import { readChunks } from '../download/file-digest.ts'
import type { Address } from '../download/request.ts'
import type { Piece, PieceRequest } from './piece.ts'

export function fetchHttpsPiece(downloader: Downloader, request: PieceRequest): Promise<Result<Piece>> {
  return fetchAddress(downloader, request, { url: request.source, trustedOrigin: null, authorization: null })
}

/** Downloads the file unmodified. */
export async function fetchAddress(
  downloader: Downloader,
  request: PieceRequest,
  address: Address,
): Promise<Result<Piece>> {
  const digest = request.isChecked ? 'checked-later' : null
  const download = await downloader.file({ ...request, ...address, digest })
  if (!download.ok) return download
  const { target, signal } = request
  return ok({
    ownPath: target,
    isContinued: download.value.isContinued,
    read: () => readChunks(target, signal),
    discard: () => dropDownload(target),
  })
}
