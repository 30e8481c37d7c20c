/**
 * The configuration of the NFS daemon: NFSv4 over TCP at one address, and an export for each volume with clients. Other
 * addresses get nothing, not even the names of volumes.
 */

export interface GaneshaSettings {
  readonly vip: string
  readonly port: number
  /** The folder in which the daemon keeps its client state. */
  readonly stateFolder: string
}

export interface GaneshaExport {
  readonly exportId: number
  readonly folder: string
  readonly pseudo: string
  /** Validated addresses, at least one. */
  readonly clients: readonly string[]
}

/** Settings that the daemon reads only at startup. */
export function settingsText({ vip, port, stateFolder }: GaneshaSettings): string {
  return [
    'NFS_CORE_PARAM {',
    '  Protocols = 4;',
    `  Bind_addr = ${vip};`,
    `  NFS_Port = ${port};`,
    '  Enable_NLM = false;',
    '  Enable_RQUOTA = false;',
    '  Enable_UDP = false;',
    '}',
    'NFSV4 {',
    // There is no grace period, since nobody else could have taken locks in the meantime.
    '  Graceless = true;',
    '  Minor_Versions = 0, 1, 2;',
    `  RecoveryRoot = "${stateFolder}";`,
    // Ids are numeric, since user names of this machine mean nothing on others.
    '  Only_Numeric_Owners = true;',
    '}',
    'LOG {',
    '  Default_Log_Level = EVENT;',
    // These log every closed connection, and a missing D-Bus at every start.
    '  Components { TIRPC = CRIT; DBUS = FATAL; }',
    '}',
    'EXPORT_DEFAULTS { Access_Type = None; Protocols = 4; Transports = TCP; SecType = sys; }',
    '',
  ].join('\n')
}

export function exportText({ exportId, folder, pseudo, clients }: GaneshaExport): string {
  return [
    'EXPORT {',
    `  Export_Id = ${exportId};`,
    `  Path = "${folder}";`,
    `  Pseudo = "${pseudo}";`,
    '  Access_Type = None;',
    '  Protocols = 4;',
    '  Transports = TCP;',
    '  SecType = sys;',
    '  FSAL { Name = VFS; }',
    '  CLIENT {',
    `    Clients = ${clients.join(', ')};`,
    '    Access_Type = RW;',
    '    Squash = No_Root_Squash;',
    '    Protocols = 4;',
    '  }',
    '}',
    '',
  ].join('\n')
}
