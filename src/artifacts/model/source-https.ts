/** `https://…`: a file at a URL. */
import { ok, type Result } from '../../contract/result.ts'
import { download, type Address, type Tools } from '../download/download.ts'
import { dropPart } from '../download/part-file.ts'
import { readChunks, type Piece, type PieceRequest } from '../download/piece.ts'

export function fetchHttpsPiece(tools: Tools, wanted: PieceRequest): Promise<Result<Piece>> {
  return fetchAddress(tools, wanted, { url: wanted.source, trustedOrigin: null, authorization: null })
}

/** Downloads the file unmodified. */
export async function fetchAddress(tools: Tools, wanted: PieceRequest, address: Address): Promise<Result<Piece>> {
  const got = await download(tools, { ...wanted, ...address })
  if (!got.ok) return got
  const { partPath, signal } = wanted
  return ok({
    ownPath: partPath,
    isContinued: got.value.isContinued,
    read: () => readChunks(partPath, signal),
    discard: () => dropPart(partPath),
  })
}
