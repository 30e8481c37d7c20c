/** `https://…`: a file at a URL. */
import { ok, type Result } from '../../contract/result.ts'
import { download, type Address, type Tools } from '../download/download.ts'
import { dropPart } from '../download/part-file.ts'
import { readChunks, type Piece, type PieceRequest } from '../download/piece.ts'

export function fetchHttpsPiece(tools: Tools, request: PieceRequest): Promise<Result<Piece>> {
  return fetchAddress(tools, request, { url: request.source, trustedOrigin: null, authorization: null })
}

/** Downloads the file unmodified. */
export async function fetchAddress(tools: Tools, request: PieceRequest, address: Address): Promise<Result<Piece>> {
  const downloaded = await download(tools, { ...request, ...address })
  if (!downloaded.ok) return downloaded
  const { partPath, signal } = request
  return ok({
    ownPath: partPath,
    isContinued: downloaded.value.isContinued,
    read: () => readChunks(partPath, signal),
    discard: () => dropPart(partPath),
  })
}
