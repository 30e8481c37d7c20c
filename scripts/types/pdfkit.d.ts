/** The part of pdfkit that documents are written with. The package has no types of its own. */
declare module 'pdfkit' {
  import type { Readable } from 'node:stream'

  /** Features of OpenType that are switched on or off. */
  export type FontFeatures = Readonly<Record<string, boolean>>

  /** A font as fontkit has opened it. */
  export interface OpenFont {
    hasGlyphForCodePoint(codePoint: number): boolean
  }

  interface TextOptions {
    readonly lineBreak: false
    readonly baseline: 'alphabetic'
    readonly features: FontFeatures
  }

  // oxlint-disable-next-line import/no-default-export -- It is what the package exports.
  export default class PDFDocument extends Readable {
    constructor(options: {
      readonly size: 'A4'
      readonly margin: 0
      readonly bufferPages: true
      readonly pdfVersion: '1.7'
      readonly subset: 'PDF/A-3b'
      readonly lang: string
      readonly displayTitle: true
      /** null: none of the fonts that readers bring along, which PDF/A forbids. */
      readonly font: null
      readonly info: Readonly<Record<'Title' | 'Author' | 'Creator' | 'Producer', string>> & {
        readonly CreationDate: Date
      }
    })
    /** The current font. Not part of the documented interface. */
    readonly _font: { readonly font: OpenFont }
    registerFont(name: string, source: Buffer | OpenFont): this
    font(name: string): this
    fontSize(size: number): this
    fillColor(color: string): this
    strokeColor(color: string): this
    lineWidth(width: number): this
    moveTo(x: number, y: number): this
    lineTo(x: number, y: number): this
    stroke(): this
    rect(x: number, y: number, width: number, height: number): this
    fill(): this
    widthOfString(text: string, options: Pick<TextOptions, 'features'>): number
    text(text: string, x: number, y: number, options: TextOptions): this
    addPage(): this
    switchToPage(page: number): this
    bufferedPageRange(): { readonly start: number; readonly count: number }
    end(): void
  }
}
