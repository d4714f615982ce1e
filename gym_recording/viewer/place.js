/** Where a recording is: on the server that sent the page, or a folder that was chosen or dropped. */

import { directorySource, fileSource, urlSource } from "../readers/gym_recording.js";

/** @typedef {import("../readers/gym_recording.js").Source} Source */

/**
 * @typedef {object} Place
 * @property {string} name that people know it by.
 * @property {Source} source
 * @property {(() => Promise<Map<string, string>>) | null} versions of the documents that are there now; a document that
 *   is replaced has another version. null: what was chosen does not change.
 */

/** @typedef {{directory: string, documents: [string, string, number][]}} Listing of the server. */

const DOCUMENT = /^openaigym\.trace\..*\.json$/;

/**
 * @param {URL} url of the directory, which answers with its list
 * @returns {Place}
 */
export function served(url) {
  /** @type {Map<string, number>} */
  let sizes = new Map();
  const versions = async () => {
    const response = await fetch(url).catch(() => {
      throw new Error("the server does not answer");
    });
    if (!response.ok) throw new Error(`the server answered ${(await response.text()).trim()}`);
    const { directory, documents } = /** @type {Listing} */ (await response.json());
    place.name = String(directory);
    sizes = new Map(documents.map(([name, , size]) => [name, size]));
    return /** @type {Map<string, string>} */ (new Map(documents.map(([name, version]) => [name, version])));
  };
  /** @type {Place} */
  const place = {
    name: "",
    source: {
      ...urlSource(url, []),
      names: async () => (await versions()).keys(),
      // So that a document that is too large is not fetched. Of blobs it is not known, and they are read in parts.
      size: async (name) => (DOCUMENT.test(name) ? (sizes.get(name) ?? 0) : Infinity),
    },
    versions,
  };
  return place;
}

/**
 * @param {FileSystemDirectoryHandle} handle
 * @returns {Place}
 */
export function followed(handle) {
  const versions = async () => {
    /** @type {Map<string, string>} */
    const found = new Map();
    for await (const [name, entry] of /** @type {any} */ (handle).entries()) {
      if (entry.kind !== "file" || !DOCUMENT.test(name)) continue;
      try {
        const file = await entry.getFile();
        found.set(name, `${file.size} ${file.lastModified}`);
      } catch (error) {
        if (/** @type {any} */ (error).name !== "NotFoundError") throw error; // else it was removed meanwhile
      }
    }
    return found;
  };
  return { name: handle.name, source: directorySource(handle), versions };
}

/**
 * @param {Iterable<File>} files
 * @returns {Place}
 */
export function chosen(files) {
  const list = [...files];
  const name = list[0]?.webkitRelativePath?.split("/")[0] || "chosen files";
  return { name, source: fileSource(list), versions: null };
}

/**
 * What was dropped: a folder, or files. To be called in the event itself, after which a browser forgets it.
 * @param {DataTransfer} transfer
 * @returns {Promise<Place>}
 */
export async function dropped(transfer) {
  const files = [...transfer.files];
  const [item] = [...transfer.items].filter(({ kind }) => kind === "file");
  const entry = item?.webkitGetAsEntry?.();
  const handle = await /** @type {any} */ (item)?.getAsFileSystemHandle?.();
  if (handle?.kind === "directory") return followed(handle);
  if (entry?.isDirectory) {
    const inside = await filesOf(/** @type {FileSystemDirectoryEntry} */ (entry));
    return { ...chosen(inside), name: entry.name };
  }
  return chosen(files);
}

/** @param {FileSystemDirectoryEntry} directory */
async function filesOf(directory) {
  const reader = directory.createReader();
  /** @type {File[]} */
  const files = [];
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!entries.length) return files; // browsers give a hundred at a time
    for (const entry of entries) {
      if (entry.isFile)
        files.push(
          await new Promise((resolve, reject) => /** @type {FileSystemFileEntry} */ (entry).file(resolve, reject)),
        );
    }
  }
}
