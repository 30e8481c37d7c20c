/**
 * Draws text on the pages of a PDF: wraps it, turns it into the order in which it is seen, and takes each character from the
 * first font that has it. A character of no font becomes a replacement, since PDF/A forbids missing glyphs.
 */
import type { FontFeatures, OpenFont } from 'pdfkit'
import type PDFDocument from 'pdfkit'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { printable, visualRuns } from './text-run.ts'

export type Weight = 'regular' | 'strong'

export interface TextStyle {
  readonly size: number
  readonly weight?: Weight
  readonly color?: string
  /** At the right edge of the width. */
  readonly isRight?: boolean
  /** All digits are equally wide, for columns of amounts. */
  readonly isNumber?: boolean
}

export const INK = '#111827'
export const MUTED = '#6b7280'
const LINE = '#d9dee5'
export const ACCENT = '#0f766e'

const LINE_HEIGHT = 1.4
/** Above the letters, in parts of the size, so that text of several sizes can stand on one line. */
const ASCENT = 0.969
/** The font has none that is made for it. */
const REPLACEMENT = '?'
/** Without alternates that depend on the neighbors: Inter draws the `x` between two digits of an id as a multiplication sign. */
const features = { calt: false }
const numberFeatures = { calt: false, tnum: true }

const files = {
  regular: [
    '@expo-google-fonts/inter/400Regular/Inter_400Regular.ttf',
    '@fontsource/noto-sans-hebrew/files/noto-sans-hebrew-hebrew-400-normal.woff',
    '@fontsource/noto-sans-arabic/files/noto-sans-arabic-arabic-400-normal.woff',
  ],
  strong: [
    '@expo-google-fonts/inter/600SemiBold/Inter_600SemiBold.ttf',
    '@fontsource/noto-sans-hebrew/files/noto-sans-hebrew-hebrew-600-normal.woff',
    '@fontsource/noto-sans-arabic/files/noto-sans-arabic-arabic-600-normal.woff',
  ],
} as const satisfies Record<Weight, readonly string[]>

const { resolve } = createRequire(import.meta.url)
/** Kept open after the first document: reading their tables takes longer than writing a page. */
const openFonts = new Map<string, OpenFont>()

function openFont(pdf: PDFDocument, file: string): void {
  const open = openFonts.get(file)
  pdf.registerFont(file, open ?? readFileSync(resolve(file)))
  if (open !== undefined) return
  const { _font: current } = pdf.font(file)
  openFonts.set(file, current.font)
}

interface Piece {
  readonly text: string
  readonly font: string
  readonly width: number
}

export class Sheet {
  readonly pdf: PDFDocument
  /** Of texts that were measured: the same ones are measured for their height and again when they are drawn. */
  readonly #widths = new Map<string, number>()

  constructor(pdf: PDFDocument) {
    this.pdf = pdf
    for (const file of [...files.regular, ...files.strong]) openFont(pdf, file)
  }

  /** Returns the height that the text takes. */
  text(text: string, x: number, y: number, width: number, style: TextStyle): number {
    const lines = this.wrap(text, width, style)
    lines.forEach((line, n) => this.#drawLine(line, x, y + n * style.size * LINE_HEIGHT, width, style))
    return lines.length * style.size * LINE_HEIGHT
  }

  heightOf(text: string, width: number, style: TextStyle): number {
    return this.wrap(text, width, style).length * style.size * LINE_HEIGHT
  }

  /** Lines in the order in which they are read. A word that is wider than the line is broken. */
  wrap(text: string, width: number, style: TextStyle): string[] {
    const lines: string[] = []
    let line = ''
    for (const word of printable(text).split(' ')) {
      const longer = line === '' ? word : `${line} ${word}`
      if (this.widthOf(longer, style) <= width) {
        line = longer
        continue
      }
      if (line !== '') lines.push(line)
      const parts = this.#breakWord(word, width, style)
      lines.push(...parts.slice(0, -1))
      line = parts.at(-1) ?? ''
    }
    if (line !== '') lines.push(line)
    return lines
  }

  widthOf(text: string, style: TextStyle): number {
    const key = `${style.size} ${style.weight ?? ''} ${style.isNumber === true} ${text}`
    const earlier = this.#widths.get(key)
    if (earlier !== undefined) return earlier
    const width = this.#piecesOf(text, style).reduce((sum, piece) => sum + piece.width, 0)
    this.#widths.set(key, width)
    return width
  }

  rule(x: number, y: number, width: number, color = LINE): void {
    this.pdf.lineWidth(0.75).strokeColor(color)
    this.pdf
      .moveTo(x, y)
      .lineTo(x + width, y)
      .stroke()
  }

  #breakWord(word: string, width: number, style: TextStyle): string[] {
    if (this.widthOf(word, style) <= width) return [word]
    const parts: string[] = []
    let part = ''
    let partWidth = 0
    for (const { segment } of new Intl.Segmenter('en').segment(word)) {
      const segmentWidth = this.widthOf(segment, style)
      if (part !== '' && partWidth + segmentWidth > width) {
        parts.push(part)
        part = ''
        partWidth = 0
      }
      part += segment
      partWidth += segmentWidth
    }
    return [...parts, part]
  }

  #drawLine(line: string, x: number, y: number, width: number, style: TextStyle): void {
    const pieces = this.#piecesOf(line, style)
    const total = pieces.reduce((sum, piece) => sum + piece.width, 0)
    let at = style.isRight === true ? x + width - total : x
    const baseline = y + style.size * ASCENT
    this.pdf.fillColor(style.color ?? INK).fontSize(style.size)
    for (const { text, font, width: pieceWidth } of pieces) {
      this.pdf.font(font).text(text, at, baseline, { lineBreak: false, baseline: 'alphabetic', ...featuresOf(style) })
      at += pieceWidth
    }
  }

  #piecesOf(line: string, style: TextStyle): Piece[] {
    const { size, weight = 'regular' } = style
    return visualRuns(line)
      .flatMap(({ text }) => this.#splitByFont(text, files[weight]))
      .map(({ text, font }) => ({
        text,
        font,
        width: this.pdf.font(font).fontSize(size).widthOfString(text, featuresOf(style)),
      }))
  }

  #splitByFont(text: string, fonts: readonly string[]): Array<{ text: string; font: string }> {
    const pieces: Array<{ text: string; font: string }> = []
    for (const one of text) {
      const last = pieces.at(-1)
      // A mark stays with its letter, and a space with the word before it.
      const stays = last !== undefined && /[\p{M} ]/u.test(one) && hasGlyph(last.font, one)
      const font = stays ? last.font : fonts.find((name) => hasGlyph(name, one))
      const character = font === undefined ? REPLACEMENT : one
      const chosen = font ?? fonts[0] ?? ''
      if (last?.font === chosen) last.text += character
      else pieces.push({ text: character, font: chosen })
    }
    return pieces
  }
}

function hasGlyph(file: string, character: string): boolean {
  return openFonts.get(file)?.hasGlyphForCodePoint(character.codePointAt(0) ?? 0) === true
}

function featuresOf({ isNumber }: TextStyle): { features: FontFeatures } {
  return { features: isNumber === true ? numberFeatures : features }
}
