/* Records what a process does to the files below one folder, for tests/crash/disk.py.
 *
 * Preloaded (LD_PRELOAD), it stands before the functions of libc that change files, so that it sees Python, LevelDB
 * and Rust alike.  Each call that succeeded is appended to the file named by RECORD_TO, if its path begins with
 * RECORD_BELOW: a header (see `struct event`), the path, a second path for a rename, and the bytes of a write.  One lock
 * is held over call and note, so that the order of the notes is that of the calls.  Writes to mapped memory are not seen.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct event { uint32_t kind, path_bytes, target_bytes, unused; uint64_t offset, data_bytes; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int to = -1;
static const char *below;

/* A process that forks one for each record calls it again, there. */
__attribute__((constructor)) void begin_record(void) {
    below = getenv("RECORD_BELOW");
    const char *name = getenv("RECORD_TO");
    if (below && name)
        to = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
}

#define NEXT(name) ({ static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); real; })
#define LOCKED(result_type, call, ...)             \
    pthread_mutex_lock(&lock);                     \
    result_type result = call;                     \
    int saved = errno;                             \
    if (to >= 0 && result >= 0) { __VA_ARGS__; }          \
    pthread_mutex_unlock(&lock);                   \
    errno = saved;                                 \
    return result

static int is_below(const char *path) {
    size_t bytes = strlen(below);
    return strncmp(path, below, bytes) == 0 && (path[bytes] == '/' || !path[bytes]);
}

static void write_note(char kind, const char *path, const char *target, uint64_t offset, const void *data, uint64_t bytes) {
    struct event event = {(uint32_t)kind, strlen(path), strlen(target), 0, offset, data ? bytes : 0};
    struct iovec parts[] = {{&event, sizeof event}, {(void *)path, event.path_bytes},
                            {(void *)target, event.target_bytes}, {(void *)data, event.data_bytes}};
    if (syscall(SYS_writev, to, parts, 4) < 0) abort();
}

/* Some Rust crates rename by system calls of their own.  So hidden files are watched: one that has gone without a note
 * is looked for in its folder by its inode before the next note. */
#define MOST_WATCHED 64
static struct { char *path; ino_t inode; } watched[MOST_WATCHED];

static void unwatch(const char *path) {
    for (int i = 0; i < MOST_WATCHED; i++)
        if (watched[i].path && !strcmp(watched[i].path, path)) free(watched[i].path), watched[i].path = NULL;
}

static void note_hidden_renames(void) {
    for (int i = 0; i < MOST_WATCHED; i++) {
        char *path = watched[i].path, target[PATH_MAX];
        if (!path || access(path, F_OK) == 0) continue;
        watched[i].path = NULL;
        int folder_bytes = strrchr(path, '/') - path;
        snprintf(target, sizeof target, "%.*s", folder_bytes, path);
        DIR *folder = opendir(target);
        for (struct dirent *entry; folder && (entry = readdir(folder));)
            if (entry->d_ino == watched[i].inode) {
                snprintf(target, sizeof target, "%.*s/%s", folder_bytes, path, entry->d_name);
                write_note('n', path, target, 0, NULL, 0);
            }
        if (folder) closedir(folder);
        free(path);
    }
}

static void note(char kind, const char *path, const char *target, uint64_t offset, const void *data, uint64_t bytes) {
    if (!is_below(path)) return;
    if (kind == 'n' || kind == 'u') unwatch(path);
    note_hidden_renames();
    write_note(kind, path, target, offset, data, bytes);
}

static const char *path_of(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t bytes = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[bytes < 0 ? 0 : bytes] = 0;
    return path;
}

static const char *absolute(int folder, const char *name, char *path) {
    if (name[0] == '/') return strncpy(path, name, PATH_MAX - 1);
    if (folder == AT_FDCWD) { if (!getcwd(path, PATH_MAX - 1)) path[0] = 0; }
    else path_of(folder, path);
    strncat(path, "/", PATH_MAX - 1 - strlen(path));
    return strncat(path, name, PATH_MAX - 1 - strlen(path));
}

static void note_at(char kind, int folder, const char *name) {
    char path[PATH_MAX] = {0};
    note(kind, absolute(folder, name, path), "", 0, NULL, 0);
}

static void note_of(char kind, int descriptor, uint64_t offset, const void *data, uint64_t bytes) {
    char path[PATH_MAX];
    note(kind, path_of(descriptor, path), "", offset, data, bytes);
}

static void renamed(int folder, const char *from, int other_folder, const char *to_path) {
    char path[PATH_MAX] = {0}, target[PATH_MAX] = {0};
    absolute(folder, from, path);
    absolute(other_folder, to_path, target);
    note('n', path, target, 0, NULL, 0);
}

static void watch(int descriptor) {
    struct stat status;
    char path[PATH_MAX];
    if (!is_below(path_of(descriptor, path)) || strrchr(path, '/')[1] != '.' || fstat(descriptor, &status)) return;
    for (int i = 0; i < MOST_WATCHED; i++)
        if (!watched[i].path) {
            watched[i].path = strdup(path), watched[i].inode = status.st_ino;
            return;
        }
    abort();
}

/* 'c' a file is created, 't' cut or extended to `offset` bytes, 'w' written to at `offset`, 's' synced, 'n' renamed,
 * 'u' unlinked, 'm' a folder is made, 'd' one is removed. */

static int opened(int folder, const char *name, int flags, mode_t mode) {
    struct stat status;
    int changes = flags & (O_CREAT | O_TRUNC);
    int existed = changes ? fstatat(folder, name, &status, 0) == 0 : 1;
    LOCKED(int, syscall(SYS_openat, folder, name, flags, mode), {
        if (changes && (flags & O_TMPFILE) != O_TMPFILE) {
            if (!existed) note_of('c', result, 0, NULL, 0), watch(result);
            else if (flags & O_TRUNC) note_of('t', result, 0, NULL, 0);
        }
    });
}

#define OPEN(name, folder_parameter, folder, flag)                                \
    int name(folder_parameter const char *path, int flags, ...) {                 \
        va_list rest;                                                             \
        va_start(rest, flags);                                                    \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;   \
        va_end(rest);                                                             \
        return opened(folder, path, flags | flag, mode);                          \
    }
#define NO_PARAMETER
#define FOLDER int folder,
OPEN(open, NO_PARAMETER, AT_FDCWD, 0)
OPEN(open64, NO_PARAMETER, AT_FDCWD, O_LARGEFILE)
OPEN(openat, FOLDER, folder, 0)
OPEN(openat64, FOLDER, folder, O_LARGEFILE)

ssize_t write(int descriptor, const void *data, size_t bytes) {
    LOCKED(ssize_t, NEXT(write)(descriptor, data, bytes),
           note_of('w', descriptor, lseek(descriptor, 0, SEEK_CUR) - result, data, result));
}

ssize_t writev(int descriptor, const struct iovec *parts, int count) {
    LOCKED(ssize_t, NEXT(writev)(descriptor, parts, count), {
        uint64_t offset = lseek(descriptor, 0, SEEK_CUR) - result;
        ssize_t left = result;
        for (int i = 0; i < count && left > 0; i++) {
            size_t bytes = (ssize_t)parts[i].iov_len < left ? parts[i].iov_len : (size_t)left;
            note_of('w', descriptor, offset, parts[i].iov_base, bytes);
            offset += bytes, left -= bytes;
        }
    });
}

ssize_t pwrite(int descriptor, const void *data, size_t bytes, off_t offset) {
    LOCKED(ssize_t, NEXT(pwrite)(descriptor, data, bytes, offset), note_of('w', descriptor, offset, data, result));
}
ssize_t pwrite64(int descriptor, const void *data, size_t bytes, off64_t offset) {
    LOCKED(ssize_t, NEXT(pwrite64)(descriptor, data, bytes, offset), note_of('w', descriptor, offset, data, result));
}
int ftruncate(int descriptor, off_t bytes) {
    LOCKED(int, NEXT(ftruncate)(descriptor, bytes), note_of('t', descriptor, bytes, NULL, 0));
}
int ftruncate64(int descriptor, off64_t bytes) {
    LOCKED(int, NEXT(ftruncate64)(descriptor, bytes), note_of('t', descriptor, bytes, NULL, 0));
}
int fsync(int descriptor) { LOCKED(int, NEXT(fsync)(descriptor), note_of('s', descriptor, 0, NULL, 0)); }
int fdatasync(int descriptor) { LOCKED(int, NEXT(fdatasync)(descriptor), note_of('s', descriptor, 0, NULL, 0)); }
int rename(const char *from, const char *to_path) {
    LOCKED(int, NEXT(rename)(from, to_path), renamed(AT_FDCWD, from, AT_FDCWD, to_path));
}
int renameat(int folder, const char *from, int other, const char *to_path) {
    LOCKED(int, NEXT(renameat)(folder, from, other, to_path), renamed(folder, from, other, to_path));
}
int unlink(const char *path) { LOCKED(int, NEXT(unlink)(path), note_at('u', AT_FDCWD, path)); }
int unlinkat(int folder, const char *path, int flags) {
    LOCKED(int, NEXT(unlinkat)(folder, path, flags), note_at(flags & AT_REMOVEDIR ? 'd' : 'u', folder, path));
}
int mkdir(const char *path, mode_t mode) {
    LOCKED(int, NEXT(mkdir)(path, mode), note_at('m', AT_FDCWD, path));
}
int mkdirat(int folder, const char *path, mode_t mode) {
    LOCKED(int, NEXT(mkdirat)(folder, path, mode), note_at('m', folder, path));
}
int rmdir(const char *path) { LOCKED(int, NEXT(rmdir)(path), note_at('d', AT_FDCWD, path)); }

/* Bytes that the kernel would copy by itself are not seen: callers then copy by read and write. */
ssize_t sendfile(int out, int in, off_t *offset, size_t bytes) { (void)out, (void)in, (void)offset, (void)bytes; errno = ENOTSOCK; return -1; }
ssize_t sendfile64(int out, int in, off64_t *offset, size_t bytes) { (void)out, (void)in, (void)offset, (void)bytes; errno = ENOTSOCK; return -1; }
ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t bytes, unsigned flags) {
    (void)in, (void)in_offset, (void)out, (void)out_offset, (void)bytes, (void)flags; errno = ENOSYS; return -1;
}
