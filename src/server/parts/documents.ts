/** Writes the files of documents. The library and the fonts are loaded with the first one. */
import type { App } from '../../app/app.ts'

export const documentsOfServer: Pick<App, 'writeDocument'> = {
  writeDocument: async (document) => {
    const { printedDocument } = await import('../../artifacts/document/printed-document.ts')
    const { writePdf } = await import('../../artifacts/document/write-pdf.ts')
    return writePdf(printedDocument(document))
  },
}
