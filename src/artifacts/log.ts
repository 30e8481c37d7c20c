/** The part of a pino logger that this room uses. */

export interface ModelLog {
  debug(detail: object, message: string): void
  info(detail: object, message: string): void
  warn(detail: object, message: string): void
}
