/** What a pino logger is, as far as this room uses it. */

export interface ModelLog {
  debug(detail: object, message: string): void
  info(detail: object, message: string): void
  warn(detail: object, message: string): void
}
